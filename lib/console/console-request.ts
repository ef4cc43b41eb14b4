import type { ConsolePermission } from './console-options.js';

/** What Express and Fastify have in common. */
export interface ConsoleRequest {
  readonly method: string;
  readonly url: string;
  readonly originalUrl?: string;
  readonly headers: Readonly<Record<string, string | readonly string[] | undefined>>;
  readonly params: Readonly<Record<string, string | undefined>>;
  readonly query: unknown;
  readonly body?: unknown;
}

/** An operator who has passed the guards. */
export interface Admitted {
  readonly actor: string;
  readonly may: ReadonlySet<ConsolePermission>;
}

/** A request on its way: where its page is, and from whom it comes once the guards have let him in. */
export interface Visit {
  /** For links: {@link rootOf}. */
  readonly root: string;
  readonly operator?: Admitted;
}

const visits = new WeakMap<ConsoleRequest, Visit>();

export function setVisit(request: ConsoleRequest, visit: Visit): void {
  visits.set(request, visit);
}

/** @throws Error for a request that has not met the console's guard, so that no page comes without it. */
export function visitOf(request: ConsoleRequest): Visit {
  const visit = visits.get(request);
  if (visit === undefined) throw new Error('The guard of the console has not seen this request.');
  return visit;
}

/** A field of a form, or of a query. One that was sent twice, or is none, is empty. */
export function fieldOf(values: unknown, name: string): string {
  if (typeof values !== 'object' || values === null || !Object.hasOwn(values, name)) return '';
  const value = (values as Readonly<Record<string, unknown>>)[name];
  return typeof value === 'string' ? value : '';
}

export function headerOf({ headers }: ConsoleRequest, name: string): string | undefined {
  const value = headers[name];
  return typeof value === 'string' ? value : undefined;
}

/**
 * The way from a page to the console's own place, for links: `./`, `../../`. A proxy in front may have cut or added a prefix.
 * @param depth - of the route: how many segments it has after the path of the console.
 */
export function rootOf({ originalUrl, url }: ConsoleRequest, depth: number): string {
  const [path = ''] = (originalUrl ?? url).split('?', 1);
  if (depth > 0) return depth === 1 ? './' : '../'.repeat(depth - 1);
  const last = path.slice(path.lastIndexOf('/') + 1);
  return last === '' ? './' : `./${last}/`;
}
