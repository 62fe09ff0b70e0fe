//! What was typed may hold secrets (headers, tokens, passwords in addresses, arguments of tools), so that no log shows it.

/// `Debug` that names the type, and shows nothing of it.
macro_rules! untold {
    ($($name:ident),+ $(,)?) => { $(
        impl ::std::fmt::Debug for $name {
            fn fmt(&self, f: &mut ::std::fmt::Formatter<'_>) -> ::std::fmt::Result {
                f.debug_struct(stringify!($name)).finish_non_exhaustive()
            }
        }
    )+ };
}

pub(crate) use untold;
