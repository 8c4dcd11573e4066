"""The user's own tables: .csv, .tsv, .npy and .npz files."""
