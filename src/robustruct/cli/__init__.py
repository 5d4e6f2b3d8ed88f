"""The command ``robustruct``: one file per subcommand, ``x_cli`` parses and ``x`` works."""
