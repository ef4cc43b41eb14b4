import type { PayloadSelection } from '../../../support/internals/message.js';

/**
 * The parts of a payload that count, without the code under test: one line for each value that counts, and for each
 * object and array above it, with the path to it.
 */
export function countedFacts(
  payload: unknown,
  { include, exclude = [] }: PayloadSelection,
): string[] {
  const facts: string[] = [];
  visit(payload, [], []);
  return facts.sort();

  /** @param names - on the path, without array indexes. */
  function visit(value: unknown, names: string[], place: (string | number)[]): void {
    if (exclude.some((path) => isWithin(names, path))) return;
    const isCounted = include?.some((path) => isWithin(names, path)) ?? true;
    const isAbove = include?.some((path) => isAboveOf(names, path)) ?? false;
    const at = JSON.stringify(place);
    if (Array.isArray(value)) {
      if (!isCounted && !isAbove) return;
      facts.push(`${at} is an array of ${value.length}`);
      value.forEach((item, index) => visit(item, names, [...place, index]));
    } else if (typeof value === 'object' && value !== null) {
      if (!isCounted && !isAbove) return;
      facts.push(`${at} is an object`);
      for (const [name, below] of Object.entries(value)) {
        visit(below, [...names, name], [...place, name]);
      }
    } else if (isCounted) {
      facts.push(`${at} is ${JSON.stringify(value)}`);
    }
  }
}

/** Whether a fact can distinguish one payload from another. */
export function saysSomething(fact: string): boolean {
  return !/ is (an array of \d+|an object|null|"")$/.test(fact);
}

function isWithin(names: readonly string[], path: string): boolean {
  const parts = path.split('.');
  return parts.length <= names.length && parts.every((part, index) => names[index] === part);
}

function isAboveOf(names: readonly string[], path: string): boolean {
  const parts = path.split('.');
  return names.length < parts.length && names.every((name, index) => parts[index] === name);
}
