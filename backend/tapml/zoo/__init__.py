"""Tiny language models of many architectures: does what is made of them generate what transformers generates?"""
