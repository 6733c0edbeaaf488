//! Design matrices: the role of each column, how its cells become numbers, and the rows for models.

pub(crate) mod classes;
pub(crate) mod collinear;
pub(crate) mod dataset;
pub(crate) mod encoding;
pub(crate) mod examination;
pub(crate) mod features;
pub(crate) mod fill;
pub(crate) mod groups;
pub(crate) mod kept;
pub(crate) mod options;
pub(crate) mod partitions;
pub(crate) mod roles;
pub(crate) mod shares;
pub(crate) mod standardise;
pub(crate) mod target;
