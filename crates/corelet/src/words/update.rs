//! The words for an update: the rows that it covers, and what rests on certificates of rows that are no longer available.

use super::numbers::{count, number, plural};
use crate::study::{Blocks, Updated};

/// One line for the blocks, and one for what the bound on V rests on.
pub fn updated(updated: &Updated) -> Vec<String> {
    let Blocks { blocks, .. } = &updated.blocks;
    let parts: Vec<usize> = updated.blocks.parts().map(|part| part.rows).collect();
    let new = parts.last().copied().unwrap_or_default();
    let anew = if updated.compressed { "; rebuilt from its own weighted rows and the new rows" } else { "" };
    let mut lines = vec![format!(
        "  rows           {} new, added to {} earlier rows in {}{anew}",
        count(new),
        count(updated.blocks.rows() - new),
        plural(parts.len() - 1, "block")
    )];
    lines.push(match updated.carried {
        None => "  earlier rows   available: the verdict covers all rows".to_owned(),
        Some(carried) => format!(
            "  earlier rows   not available: {} nats² of the bound on V rest on their {}",
            number(carried),
            if blocks.len() > 2 { "certificates, whose sd(Δ) are added" } else { "certificate" }
        ),
    });
    lines
}

/// The same lines for a model that is known by its log-likelihoods, whose coreset each update rebuilds.
pub fn updated_model(before: &Blocks, new: usize, carried: f64) -> Vec<String> {
    let blocks = before.parts().count();
    vec![
        format!(
            "  rows           {} new, added to {} earlier rows in {}",
            count(new),
            count(before.rows()),
            plural(blocks, "block")
        ),
        format!(
            "  earlier rows   not available: {} nats² of the bound on V rest on their {}",
            number(carried),
            if blocks > 1 { "certificates, whose sd(Δ) are added" } else { "certificate" }
        ),
    ]
}
