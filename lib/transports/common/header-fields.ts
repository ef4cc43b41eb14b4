type Headers = Readonly<Record<string, unknown>>;

/**
 * All lines of one header field of a request, `name` in lower case. As received, where `rawHeaders` has them: Node joins
 * repeated lines in `headers`, which would make one key of two (contract C07). Otherwise from `headers`: adapters of
 * serverless platforms leave the list empty, objects of tests have none, and middleware sets fields only there.
 */
export function fieldLines(
  rawHeaders: readonly string[] | undefined,
  headers: Headers | undefined,
  name: string,
): string[] {
  const isLine = (_: string, i: number, all: readonly string[]) =>
    i % 2 === 1 && isNamed(all[i - 1] ?? '', name);
  const lines = rawHeaders?.filter(isLine) ?? [];
  if (lines.length > 0) return lines;
  // Not by its name alone: only Node's parser puts all names in lower case.
  for (const field in headers) {
    if (isNamed(field, name)) lines.push(...linesOf(headers[field]));
  }
  return lines;
}

/** The value of one header field as Node joins it, `name` in lower case; `undefined` if absent. */
export function fieldValue(headers: Headers, name: string): string | undefined {
  const value = headers[name];
  if (typeof value === 'string') return value;
  const lines = fieldLines(undefined, headers, name);
  return lines.length === 0 ? undefined : lines.join();
}

function isNamed(field: string, name: string): boolean {
  return field.length === name.length && field.toLowerCase() === name;
}

/** Of a field that is absent or was unset, none. */
function linesOf(value: unknown): string[] {
  return value === undefined || value === null ? [] : [value].flat().map(String);
}
