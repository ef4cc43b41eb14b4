/** A phrase that a reader has to translate first, and what to write instead. */
export interface Phrase {
  readonly pattern: RegExp;
  readonly instead: string;
}

export const PHRASES: readonly Phrase[] = [
  phrase('nobody|no one', 'name the subject: "the client", "no process"'),
  phrase('somebody|someone|anybody|anyone|everybody|everyone', 'name the subject'),
  phrase('whoever|whomever', 'name the subject, or "the caller that"'),
  phrase("the layer|the layer's", 'the interceptor, or the library'),
  phrase('told|(?:tell|tells|telling) of', 'reported, notified, returned'),
  phrase('(?:what|which)(?: ha[sd]| is to| to)? (?:become|becomes|became) of', 'the outcome of'),
  phrase('of (?:its|his|her|their|your) own accord', 'by itself, unasked'),
  phrase('mend|mends|mended|mending', 'fix, repair'),
  phrase('(?:as|more) (?:like|often) (?:as not|than not)', 'usually'),
  phrase('(?:hand|hands|handed|give|gives|gave|given) back', 'requeue, return'),
  phrase('put aside|puts aside', 'dead-letter'),
  phrase('(?:comes|come|came) again', 'is redelivered, is retried'),
  phrase('(?:hear|hears|heard) of', 'is notified of'),
  phrase('is at it|are at it|be at it', 'is running'),
  phrase('he|him|his|himself', 'they, their'),
  phrase('undertaking|patience|impatient|fate', 'request, timeout, outcome'),
  phrase('repetition|repetitions', 'retry, duplicate'),
];

function phrase(words: string, instead: string): Phrase {
  return { pattern: new RegExp(`\\b(?:${words.replaceAll(' ', '\\s+')})\\b`, 'giu'), instead };
}

export interface Finding {
  readonly line: number;
  readonly words: string;
  readonly instead: string;
}

/** Where a text uses one of {@link PHRASES}. Code in Markdown counts: an example has comments, too. */
export function phrasesIn(text: string): Finding[] {
  // A phrase may run over the end of a line, and of a comment's line.
  const flat = text.replace(/\n[\t ]*(?:\*(?!\/)|\/\/|--|>|#+)?[\t ]?/g, (end) =>
    end.replace(/[^\n]/g, ' '),
  );
  return PHRASES.flatMap(({ pattern, instead }) =>
    [...flat.replaceAll('\n', ' ').matchAll(pattern)].map(({ 0: words, index }) => ({
      line: text.slice(0, index).split('\n').length,
      words: words.replace(/\s+/g, ' '),
      instead,
    })),
  ).sort((one, other) => one.line - other.line);
}
