//! The temporal engine held against its definitions.

use proptest as _;
