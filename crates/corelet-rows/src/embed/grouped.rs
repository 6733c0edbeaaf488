//! Groups of rows as columns: φ of a group is the sum of the φ of its rows.

use super::stored::{Precision, Stored};
use super::{Description, EmbedError, Embedded, Embedding, Recipe};
use crate::data::{Groups, available};
use crate::rows::{Rows, RowsError};

/// Numbers of columns of rows that a thread holds at a time.
const AT_ONCE: usize = 1 << 20;

/// Numbers of columns of groups that are held in f64; more are held in f32.
const MOST_DOUBLES: usize = 1 << 27;

impl Embedded<'_> {
    /// The columns of groups of these rows, held: one pass over the rows, group by group, whatever the number of threads.
    ///
    /// # Errors
    /// [`EmbedError::Memory`] where they do not fit, and whatever the rows fail with.
    pub fn grouped(&self, groups: &Groups) -> Result<Stored, EmbedError> {
        let description = self.description().clone();
        let precision = precision(groups.len(), &description)?;
        let (rows, recipe) = (self.rows(), &**self.recipe());
        Stored::of_blocks(groups.len(), description, precision, |ids, out| {
            out.fill(0.0);
            Ok(add_members(rows, recipe, groups, ids, out)?)
        })
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

/// Adds the columns of the rows of each of these groups to that of the group.
fn add_members(
    rows: &dyn Rows,
    recipe: &Recipe,
    groups: &Groups,
    ids: &[usize],
    out: &mut [f64],
) -> Result<(), RowsError> {
    let length = recipe.coordinates();
    let members = ids.iter().enumerate();
    let members = members.flat_map(|(at, &id)| groups.members(id).iter().map(move |&row| (at, row)));
    let members: Vec<(usize, usize)> = members.collect();
    for part in members.chunks((AT_ONCE / length).max(16)) {
        let ids: Vec<usize> = part.iter().map(|&(_, row)| row).collect();
        let columns = recipe.columns(&rows.bind(rows.fetch(&ids)?)?)?;
        for (&(at, _), column) in part.iter().zip(columns.chunks_exact(length)) {
            out[at * length..][..length].iter_mut().zip(column).for_each(|(sum, x)| *sum += x);
        }
    }
    Ok(())
}
