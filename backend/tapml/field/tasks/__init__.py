"""Tasks by git: a group is a folder, a scenario a repository, a task a branch, a version a tag (docs/field.md)."""
