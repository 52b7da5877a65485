"""From run directories to tables: reads only what the runs recorded, computes nothing that was not measured."""
