/**
 * A text with its type and length in front, so that texts put one after another cannot be parted in any
 * other way. UTF-8 turns every lone surrogate into the same replacement character: JSON keeps them apart.
 */
export function tagged(text: string): string {
  return text.isWellFormed() ? prefixed('s', text) : prefixed('j', JSON.stringify(text));
}

/** The same for an integer, which is no text: 7 and "7" are not equal. */
export function taggedInteger(value: number): string {
  return prefixed('n', String(value));
}

function prefixed(type: string, text: string): string {
  return `${type}${String(text.length)}:${text}`;
}
