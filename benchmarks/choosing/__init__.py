"""How far what is chosen is behind the fastest kernel of the search space, and how long choosing takes."""
