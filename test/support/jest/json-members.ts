/** As `JSON.parse` returns it: `__proto__` is a member like any other, the last of equal names counts. */
export function ofMembers(members: readonly (readonly [string, unknown])[]): unknown {
  const text = members.map(([name, value]) => `${JSON.stringify(name)}:${JSON.stringify(value)}`);
  return JSON.parse(`{${text.join()}}`);
}

/** The same value with its members in another order, at every level. */
export function reordered(value: unknown): unknown {
  if (Array.isArray(value)) return value.map(reordered);
  if (typeof value !== 'object' || value === null) return value;
  return ofMembers(
    Object.entries(value)
      .reverse()
      .map(([name, member]) => [name, reordered(member)] as const),
  );
}
