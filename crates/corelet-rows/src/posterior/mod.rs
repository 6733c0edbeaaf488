//! Posteriors: the Gaussians that stand for them, their priors, Laplace fits, and draws by NUTS.

mod density;
mod gaussian;
mod laplace;
mod modes;
mod nuts;
mod prior;
mod starts;
mod tails;

pub use density::{Density, Jet};
pub use gaussian::{Gaussian, kl_gaussian};
pub use laplace::{Laplace, LaplaceError, LaplaceSettings, LaplaceStatus, laplace};
pub use modes::{
    MODE_DIP, Mode, Modes, NEGLIGIBLE_SHARE, PROPORTION_DRAWS, has_one_mode, modes, modes_of_weighted,
};
pub use nuts::*;
pub use prior::Prior;
pub use tails::{Missed, Tail, tails};
