//! Posteriors: the Gaussians that stand for them, their priors, Laplace fits, and draws by NUTS.

mod density;
mod gaussian;
mod laplace;
mod nuts;
mod prior;

pub use density::{Density, Jet};
pub use gaussian::{Gaussian, kl_gaussian};
pub use laplace::{Laplace, LaplaceError, LaplaceSettings, LaplaceStatus, laplace};
pub use nuts::*;
pub use prior::Prior;
