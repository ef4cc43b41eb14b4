/** How the handling of one message ended. */
export type MessageEnd =
  | {
      readonly kind: 'emitted';
      readonly values: readonly unknown[];
      /** It would be answered by its record, and not handled again. */
      readonly isStored: boolean;
    }
  | {
      readonly kind: 'failed';
      readonly error: unknown;
      /** Repetitions are told the same: it is not worth trying again. */
      readonly isFinal: boolean;
    }
  /** It could not be handled now, and has waited long enough. */
  | { readonly kind: 'handed_back' }
  /** Somebody else has it, or will have it: there is nothing to be told to anybody. */
  | { readonly kind: 'left' };

/** The handler returned, and had told the broker by itself that it wants the message back, or put aside. */
export class HandedBackByHandler extends Error {
  override readonly name = 'HandedBackByHandler';
}
