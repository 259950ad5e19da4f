"""What tests share: programs, drivers, and judges that share no module with the package."""
