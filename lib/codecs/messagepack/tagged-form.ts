import { C1 } from 'msgpackr';

/**
 * What MessagePack has no type for stands as an array that begins with 0xc1, a byte that no other value has. msgpackr's
 * extensions would do the same, but they hold for all who use the same copy of it, and so for the application.
 */
export type Tag = 'map' | 'set' | 'object' | 'text' | 'zero';

export function tagged(tag: Tag, content: Iterable<unknown>): readonly unknown[] {
  return [C1, tag, ...content];
}

/** Whether there may be tagged forms in what was written; bytes of numbers and texts can look like one. */
export function mayBeTagged(bytes: Uint8Array): boolean {
  return bytes.includes(0xc1);
}

/** The value in whose place a form was written. Changes `form`, which was just read and is nobody's yet. */
export function untagged(form: unknown): unknown {
  if (Array.isArray(form)) {
    const items: unknown[] = form;
    for (const [index, item] of items.entries()) items[index] = untagged(item);
    return items[0] === C1 ? valueOf(items[1] as Tag, items.slice(2)) : items;
  }
  if (isMembers(form)) {
    for (const [name, member] of Object.entries(form)) form[name] = untagged(member);
  }
  return form;
}

function valueOf(tag: Tag, content: unknown[]): unknown {
  switch (tag) {
    case 'map':
      return new Map(pairs(content));
    case 'set':
      return new Set(content);
    case 'object':
      return Object.fromEntries(pairs(content));
    case 'text':
      return (content[0] as Buffer).toString('utf16le');
    case 'zero':
      return -0;
  }
}

function* pairs(content: readonly unknown[]): Generator<[never, unknown]> {
  for (let at = 0; at < content.length; at += 2) yield [content[at] as never, content[at + 1]];
}

function isMembers(form: unknown): form is Record<string, unknown> {
  return (
    typeof form === 'object' && form !== null && Object.getPrototypeOf(form) === Object.prototype
  );
}
