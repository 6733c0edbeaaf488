//! Tables read block by block: sources, cells, and what one pass over them finds.

pub(crate) mod blocks;
pub(crate) mod collect;
pub(crate) mod in_memory;
pub(crate) mod kept_rows;
pub(crate) mod levels;
pub(crate) mod memory;
pub(crate) mod names;
pub(crate) mod place;
pub(crate) mod source;
pub(crate) mod split;
pub(crate) mod storage;
pub(crate) mod sums;
pub(crate) mod survey;
pub(crate) mod table;
pub(crate) mod text_cells;
pub(crate) mod view;
