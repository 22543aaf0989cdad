"""The scores that tables show."""

# Score -> heading, in the order of the papers' tables.
COLUMNS = {
    "infomec/modularity": "InfoM",
    "infomec/explicitness": "InfoE",
    "infomec/compactness": "InfoC",
    "dci/disentanglement": "D",
    "dci/completeness": "C",
    "dci/informativeness": "I",
    "mig/mig": "MIG",
    "modularity/modularity": "Mod.",
    "sap/sap": "SAP",
    "mcc/mcc": "MCC",
    "straight_through_gap/gap": "ST gap",
    "psnr/psnr": "PSNR (dB)",
}
