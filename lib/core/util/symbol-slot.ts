interface Entry<Value> {
  readonly owner: object;
  value: Value | undefined;
}

/**
 * Associates a value with an object for the object's lifetime, as a `WeakMap` does, each of whose entries costs a
 * request 3 % in garbage collection. The value is in a symbol property that copies and logs leave out.
 */
export class SymbolSlot<Value> {
  private readonly symbol: symbol;
  /** Of objects that accept no property, or have one of another object: they inherit from it, or are its proxy. */
  private readonly others = new WeakMap<object, Value>();

  /** @param name - shown by debuggers. */
  constructor(name: string) {
    this.symbol = Symbol(`nestjs-idempotency:${name}`);
  }

  get(object: object): Value | undefined {
    const entry = this.entryAt(object);
    return entry?.owner === object ? entry.value : this.others.get(object);
  }

  /** @param value - `undefined` removes the present one. */
  set(object: object, value: Value | undefined): void {
    const entry = this.entryAt(object);
    if (entry?.owner === object) entry.value = value;
    else if (entry !== undefined || !this.define(object, value)) this.setOther(object, value);
  }

  private entryAt(object: object): Entry<Value> | undefined {
    return (object as Readonly<Record<symbol, Entry<Value> | undefined>>)[this.symbol];
  }

  private define(owner: object, value: Value | undefined): boolean {
    const entry: Entry<Value> = { owner, value };
    return Reflect.defineProperty(owner, this.symbol, { value: entry, configurable: true });
  }

  private setOther(object: object, value: Value | undefined): void {
    if (value === undefined) this.others.delete(object);
    else this.others.set(object, value);
  }
}
