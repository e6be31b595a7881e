"""Mutation operators, by what the mistake is about; `mutate.OPERATORS` names all of them."""
