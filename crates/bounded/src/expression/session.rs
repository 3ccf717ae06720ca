//! DataFusion's functions and settings, as bounded queries have them.

use crate::functions;
use datafusion::execution::{SessionState, SessionStateBuilder, SessionStateDefaults};
use datafusion::prelude::SessionConfig;
use std::sync::LazyLock;

/// The session, made once, since that takes milliseconds.
static STATE: LazyLock<SessionState> = LazyLock::new(|| {
    let mut config = SessionConfig::new().with_target_partitions(1);
    let options = config.options_mut();
    options.sql_parser.collect_spans = true;
    options.sql_parser.parse_float_as_decimal = true;
    options.sql_parser.map_string_types_to_utf8view = false;
    SessionStateBuilder::new()
        .with_config(config)
        .with_default_features()
        .with_scalar_functions(
            SessionStateDefaults::default_scalar_functions()
                .into_iter()
                .chain([functions::has_token()])
                .collect(),
        )
        .build()
});

/// DataFusion's functions and settings.
pub(crate) fn session() -> &'static SessionState {
    &STATE
}
