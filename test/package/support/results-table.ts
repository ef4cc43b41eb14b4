import { NODE_VERSIONS, type NodeVersion } from './node-versions.js';

const WIDTH = 7;

/** Which combinations pass on which versions of Node, to be printed at the end. */
export class ResultsTable {
  private readonly rows: { readonly name: string; readonly cells: Map<NodeVersion, string> }[] = [];

  add(name: string): ResultsRow {
    const cells = new Map<NodeVersion, string>();
    this.rows.push({ name, cells });
    return {
      note: async (node, run) => {
        cells.set(node, 'FAILED');
        await run();
        cells.set(node, 'ok');
      },
    };
  }

  toString(): string {
    const widest = Math.max(...this.rows.map(({ name }) => name.length));
    const line = (name: string, cells: readonly string[]) =>
      [name.padEnd(widest), ...cells.map((cell) => cell.padEnd(WIDTH))].join('  ').trimEnd();
    const heads = NODE_VERSIONS.map((node) => `Node ${String(node)}`);
    const lines = this.rows.map(({ name, cells }) =>
      line(
        name,
        NODE_VERSIONS.map((node) => cells.get(node) ?? 'not run'),
      ),
    );
    return [line('', heads), ...lines].join('\n');
  }
}

export interface ResultsRow {
  /** Records how `run` ends. */
  note(node: NodeVersion, run: () => Promise<void>): Promise<void>;
}
