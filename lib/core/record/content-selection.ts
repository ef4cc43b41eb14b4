import { isObject } from '../options/option-checks.js';
import { isOpaque } from './canonical-json.js';

/**
 * Selects the members of a body under `include` (all if `undefined`), without those under `exclude`. A dotted path
 * passes through arrays: `items.sku` selects the sku of every item. A path into a value that has no plain members (a
 * date, bytes, a `Map`, an instance with private fields) selects all of it.
 */
export function selectMembers(
  body: unknown,
  include: readonly string[] | undefined,
  exclude: readonly string[],
): unknown {
  const included = include === undefined ? body : pick(body, include.map(segments));
  return exclude.length === 0 ? included : omit(included, exclude.map(segments));
}

type Path = readonly string[];

function segments(path: string): Path {
  return path.split('.');
}

function pick(value: unknown, paths: readonly Path[]): unknown {
  if (paths.some((path) => path.length === 0)) return value;
  // Null keeps the position of an item without selected members.
  if (Array.isArray(value)) return value.map((item) => pick(item, paths) ?? null);
  if (!isObject(value)) return undefined;
  if (!hasMembers(value)) return value;
  return rebuild(value, (name, member) => {
    const below = nest(paths, name);
    return below.length === 0 ? undefined : pick(member, below);
  });
}

function omit(value: unknown, paths: readonly Path[]): unknown {
  if (paths.some((path) => path.length === 0)) return undefined;
  if (paths.length === 0) return value;
  if (Array.isArray(value)) return value.map((item) => omit(item, paths));
  if (!isObject(value) || !hasMembers(value)) return value;
  return rebuild(value, (name, member) => omit(member, nest(paths, name)));
}

function nest(paths: readonly Path[], name: string): Path[] {
  return paths.filter((path) => path[0] === name).map((path) => path.slice(1));
}

function rebuild(
  value: Record<string, unknown>,
  member: (name: string, value: unknown) => unknown,
): Record<string, unknown> {
  // No prototype, so that a member named __proto__ stays a member.
  const rebuilt = Object.create(null) as Record<string, unknown>;
  for (const name of Object.keys(value)) {
    const kept = member(name, value[name]);
    if (kept !== undefined) rebuilt[name] = kept;
  }
  return rebuilt;
}

/** Whether its members are all of it: two different instances of `Map` would be rebuilt as the same empty object. */
function hasMembers(value: Record<string, unknown>): boolean {
  return (
    Object.prototype.toString.call(value) === '[object Object]' &&
    typeof value.toJSON !== 'function' &&
    !isOpaque(value)
  );
}
