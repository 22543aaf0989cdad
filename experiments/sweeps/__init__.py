"""Many runs: the plan, where trials run, and each trial."""
