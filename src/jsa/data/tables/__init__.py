"""Tables of the user: .csv, .tsv, .npy and .npz files."""
