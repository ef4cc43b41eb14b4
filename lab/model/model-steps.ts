/** The record as the model has it. */
export interface ModelRecord {
  readonly state: string;
  /** Attempts by number, 0 for none: whose token it has, and whose outcome. */
  readonly own: number;
  readonly kept: number;
  /** In ticks of the model's clock. */
  readonly fence: number;
  readonly content: number;
  readonly over: number;
  readonly overdue: number;
}

/** A line that the model prints under TRACE: a command or an event, and the record after it. */
export interface ModelStep {
  /** `given`: the record is set, for the next command of the table. */
  readonly name:
    | ('begin' | 'extend' | 'completed' | 'failed' | 'release' | 'amend')
    | ('given' | 'lose' | 'lease' | 'deadline');
  readonly args: Readonly<Record<string, number>>;
  /** Of a command. */
  readonly reply: string | undefined;
  /** The attempt whose outcome the reply has, if it has one. */
  readonly replied: number;
  readonly record: ModelRecord;
}

const LINE = /^(\w+)((?: \w+=\d+)*)(?: -> (\w+) (\d+))? \| (\w+)((?: \w+=\d+)+)$/;

/** Other lines are spin's. */
export function stepsIn(output: string): ModelStep[] {
  return output.split('\n').flatMap((line) => {
    const found = LINE.exec(line.trim());
    if (found === null) return [];
    const [, name, args = '', reply, replied = '0', state, fields = ''] = found;
    const record = { state, ...numbersIn(fields) } as unknown as ModelRecord;
    return [
      {
        name: name as ModelStep['name'],
        args: numbersIn(args),
        reply,
        replied: Number(replied),
        record,
      },
    ];
  });
}

function numbersIn(text: string): Record<string, number> {
  return Object.fromEntries(
    Array.from(text.matchAll(/(\w+)=(\d+)/g), ([, name, value]) => [name, Number(value)]),
  );
}
