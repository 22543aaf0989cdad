"""The scores that tables show."""

# Score -> heading, in the order of the papers' tables.
COLUMNS = {
    "infomec/modularity": "InfoM",
    "infomec/explicitness": "InfoE",
    "infomec/compactness": "InfoC",
    "dci/disentanglement": "D",
    "dci/completeness": "C",
    "dci/informativeness": "I",
    # Boosted trees and forests give other numbers: each has columns of its own.
    "dci_gradient_boosting/disentanglement": "D (boosted)",
    "dci_gradient_boosting/completeness": "C (boosted)",
    "dci_gradient_boosting/informativeness": "I (boosted)",
    "beta_vae_score/score": "BetaVAE",
    "factor_vae_score/score": "FactorVAE",
    "mig/mig": "MIG",
    "modularity/modularity": "Mod.",
    "sap/sap": "SAP",
    "mcc/mcc": "MCC",
    "straight_through_gap/gap": "ST gap",
    "psnr/psnr": "PSNR (dB)",
    "psnr/mse": "MSE",
}
