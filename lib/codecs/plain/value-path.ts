/** A member's name, or the position of an item or an entry. */
export type PathStep = string | number;

/** Longer paths lose their beginning. */
const MAX_LENGTH = 200;

/** How members are called that a program has named; a name of another kind may be data, as an e-mail address is. */
const WRITTEN_NAME = /^[A-Za-z_$][\w$-]{0,39}$/;

/** Where something stands in a value, for messages: `value.items[2].price`. */
export function pathText(steps: readonly PathStep[]): string {
  const text = steps.map(stepText).join('');
  return text.length > MAX_LENGTH ? `value…${text.slice(-MAX_LENGTH)}` : `value${text}`;
}

function stepText(step: PathStep): string {
  if (typeof step === 'number') return `[${step}]`;
  return WRITTEN_NAME.test(step) ? `.${step}` : '["…"]';
}
