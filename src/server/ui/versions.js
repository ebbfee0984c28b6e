// The answers that a question got: the one that is shown stands between those before and those after it.

const PARTS = ['content', 'reasoning', 'calls', 'error', 'note', 'stats'];
const answerOf = (message) => Object.fromEntries(PARTS.map((name) => [name, message[name]]));

export const place = (message) => (message.before?.length ?? 0) + 1;
export const count = (message) => place(message) + (message.after?.length ?? 0);
export const all = (message) => [...(message.before ?? []), answerOf(message), ...(message.after ?? [])];

// Shows the answer at `number`, from 1.
export function turnTo(message, number) {
  const answers = all(message);
  Object.assign(message, answers[number - 1], { before: answers.slice(0, number - 1), after: answers.slice(number) });
}
