"""Commands that judge many programs and print what they found; `test/nightly.sh` runs them."""
