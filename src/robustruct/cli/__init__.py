"""The command ``robustruct``: one file per subcommand; ``x_cli`` prints what ``x`` returns."""
