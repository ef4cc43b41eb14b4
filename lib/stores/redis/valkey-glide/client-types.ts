import type { RedisArgument } from '../link/redis-link.js';

/**
 * What the store requires of a client: a `GlideClient` or a `GlideClusterClient` of `@valkey/valkey-glide` 2. Structural,
 * so that compiling does not require the package.
 */
export interface ValkeyGlideClient {
  customCommand(...args: never[]): Promise<unknown>;
  invokeScript(...args: never[]): Promise<unknown>;
  close(errorMessage?: string): void;
}

/** Where a cluster runs a command that has no key. */
export type Route =
  | 'allPrimaries'
  | 'allNodes'
  | { readonly type: 'primarySlotKey'; readonly key: string }
  | { readonly type: 'routeByAddress'; readonly host: string; readonly port: number };

/** The values of `Decoder` of GLIDE. The default one gives an error for a reply that is not UTF-8, after the script ran. */
export const BYTES = 0;
export const TEXTS = 1;

export interface CommandOptions {
  readonly decoder: typeof BYTES | typeof TEXTS;
  readonly route?: Route | undefined;
}

export interface GlideClient extends ValkeyGlideClient {
  /** Not documented by GLIDE: whether it is closed for good. */
  readonly isClosed?: boolean;
  customCommand(words: readonly RedisArgument[], options: CommandOptions): Promise<unknown>;
}

export function isGlideClient(client: unknown): client is GlideClient {
  return ['customCommand', 'invokeScript', 'close'].every((method) => has(client, method));
}

/** Only a `GlideClusterClient` has routes. */
export function isClusterClient(client: GlideClient): boolean {
  return has(client, 'invokeScriptWithRoute');
}

function has(client: unknown, method: string): boolean {
  if (typeof client !== 'object' || client === null) return false;
  return typeof (client as Record<string, unknown>)[method] === 'function';
}
