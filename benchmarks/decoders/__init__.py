"""Decoders of transformers: do they generate what transformers generates?"""
