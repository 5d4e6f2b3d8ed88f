"""Stand-ins for classes of other libraries: change one import and go on."""
