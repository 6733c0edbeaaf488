//! Groups of rows as columns, held.

use super::stored::{Precision, Stored};
use super::{Description, EmbedError, Embedded, Embedding};
use crate::data::available;
use crate::rows::Grouped;

/// Numbers of columns of groups that are held in f64; more are held in f32.
const MOST_DOUBLES: usize = 1 << 27;

impl Embedded<'_> {
    /// The columns of groups of these rows, held: one pass over the rows.
    ///
    /// # Errors
    /// [`EmbedError::Memory`] where they do not fit, and whatever the rows fail with.
    pub fn grouped(&self, groups: &dyn Grouped) -> Result<Stored, EmbedError> {
        let description = self.description().clone();
        let precision = precision(groups.len(), &description)?;
        Stored::of_columns(
            groups.len(),
            description,
            precision,
            |put| Ok(groups.columns(self.recipe(), put)?),
        )
    }
}

/// Single where doubles would be many; refuses what there is no memory for.
fn precision(groups: usize, description: &Description) -> Result<Precision, EmbedError> {
    let coordinates = description.coordinates;
    let numbers = groups.saturating_mul(coordinates);
    let (precision, bytes) =
        if numbers <= MOST_DOUBLES { (Precision::Double, 8) } else { (Precision::Single, 4) };
    let needed = (numbers as u64).saturating_mul(bytes);
    match available() {
        Some(available) if needed > available => {
            let embedding = description.name.clone();
            Err(EmbedError::Memory { groups, coordinates, embedding, needed, available })
        }
        _ => Ok(precision),
    }
}
