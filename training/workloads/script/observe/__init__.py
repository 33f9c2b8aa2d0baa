"""The observer, loaded into the processes of a script by `path/sitecustomize.py`. See docs/adr/0015.

It runs in the user's Python, 3.9 or newer, with nothing installed for it: the standard library until the script imports
its framework. It computes nothing that the script reads, and an error in it never reaches the script.
"""
