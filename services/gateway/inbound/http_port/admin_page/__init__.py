"""The files of the administrators' page, as they are sent; vendor/ has the libraries, pinned by a test."""
