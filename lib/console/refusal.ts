/** Why a request gets no page but an explanation. */
export class Refusal extends Error {
  override readonly name = 'ConsoleRefusal';

  /** @param title - of its page. @param message - without anything of the request. */
  constructor(
    readonly status: number,
    readonly title: string,
    message: string,
  ) {
    super(message);
  }
}
