import { IdempotencyOptionsError } from './errors.js';

const NOT_FOUND = new Set<unknown>(['ERR_MODULE_NOT_FOUND', 'MODULE_NOT_FOUND']);

/**
 * Loads an optional peer, only when it is needed.
 *
 * @param needs - who needs it for what, the beginning of a sentence.
 * @param load - an `import()` that spells out the name, for bundlers to see.
 * @throws {@link IdempotencyOptionsError} when it is not installed.
 */
export async function importPeer<Module>(
  name: string,
  needs: string,
  load: () => Promise<Module>,
): Promise<Module> {
  try {
    return await load();
  } catch (error) {
    if (!isNotFound(error, name)) throw error;
    const message = `${needs} ${name}, which is not installed: npm install ${name}`;
    throw new IdempotencyOptionsError(message, { cause: error });
  }
}

/** By its text, too: what the peer itself needs may be what is missing. */
function isNotFound(error: unknown, name: string): boolean {
  const { code, message } = error as { readonly code?: unknown; readonly message?: unknown };
  return NOT_FOUND.has(code) && String(message).includes(`'${name}'`);
}
