#![cfg_attr(fuzzing, no_main, allow(unsafe_code))]

bowline_fuzz::target!(bowline_fuzz::stream_ops::run);
