let loaders: Readonly<Record<string, () => object>> = {};

/**
 * Called where a CommonJS application requires the package, of which Node loads the ES modules. Instrumentations of such
 * an application replace `require()`, and do not see what `import()` loads.
 * @param byRequire - loads optional peers, by name.
 */
export function loadPeersBy(byRequire: typeof loaders): void {
  loaders = byRequire;
}

/** The optional peer if the application requires its packages; load it by `import('its name')` otherwise. */
export function requirePeer(name: string): object | undefined {
  return loaders[name]?.();
}
