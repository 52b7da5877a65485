"""Task folders of other projects: how a task is written as one."""
