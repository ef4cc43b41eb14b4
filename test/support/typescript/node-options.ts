/** Options with which `node` runs the TypeScript of this checkout. */
export const typescriptNodeOptions: readonly string[] = [
  '--import',
  new URL('register.mjs', import.meta.url).href,
];
