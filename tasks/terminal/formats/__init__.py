"""Task folders of other projects (Endless Terminals, Harbor). ``source`` reads what ``--tasks`` names, by ``endless``, ``harbor`` and
``rows``; ``dockerfile`` and ``definition`` turn build files into a ``plan``, ``build`` carries it out in a sandbox, ``layers`` keeps
what came of it; ``machine`` starts sandboxes from there, ``episode`` plays in them, ``judging`` runs the tests; ``gate`` examines
tasks. ``export`` and ``convert`` write folders. ``shim`` and ``run_pytest`` travel into sandboxes as they are. Used by the suite and
by ``bench tasks``; imports the sandbox, never the suite."""
