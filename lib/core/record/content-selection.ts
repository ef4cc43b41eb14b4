import { isOpaque } from './canonical-json.js';

/**
 * The members of a body that count: those under `include` (all where it is `undefined`), less those
 * under `exclude`. A dotted path goes through arrays: `items.sku` means the sku of every item. What cannot
 * be taken apart without loss (a date, bytes, a `Map`, an instance with private fields) counts as a whole wherever a path leads into it.
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
  // Null keeps the place of an item that has none of the members: its neighbours stay where they are.
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
  // No prototype: a member called __proto__ stays a member.
  const rebuilt = Object.create(null) as Record<string, unknown>;
  for (const name of Object.keys(value)) {
    const kept = member(name, value[name]);
    if (kept !== undefined) rebuilt[name] = kept;
  }
  return rebuilt;
}

/**
 * Whether the value is nothing but its members. Those of a `Date`, a `Map` or an instance with private fields
 * say nothing of it, so that two of them would be rebuilt as the same empty object.
 */
function hasMembers(value: Record<string, unknown>): boolean {
  return (
    Object.prototype.toString.call(value) === '[object Object]' &&
    typeof value.toJSON !== 'function' &&
    !isOpaque(value)
  );
}

function isObject(value: unknown): value is Record<string, unknown> {
  return typeof value === 'object' && value !== null;
}
