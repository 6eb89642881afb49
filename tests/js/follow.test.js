/* Tests how the page keeps its newest text in view, on a fake scrolling box without a browser, so that the test
 * decides the order of events. */
import assert from 'node:assert/strict';
import { test } from 'node:test';
import { Follow } from '../../web/chat/follow.js';

/** A fake scroll box that clamps scrollTop like a browser. */
class Box extends EventTarget {
  #top = 0;
  scrollHeight = 500;
  clientHeight = 100;

  get end() {
    return this.scrollHeight - this.clientHeight;
  }

  get scrollTop() {
    this.scrollTop = this.#top;
    return this.#top;
  }

  set scrollTop(value) {
    this.#top = Math.max(0, Math.min(value, this.end));
  }

  focus() {}

  scrolled() {
    this.dispatchEvent(new Event('scroll'));
  }
}

function following() {
  globalThis.ResizeObserver = /** @type {any} */ (
    class {
      observe() {}
    }
  );
  const box = new Box();
  const button = Object.assign(new EventTarget(), { hidden: true });
  const follow = new Follow(/** @type {any} */ (box), /** @type {any} */ (button));
  follow.toEnd();
  return { box, button, follow };
}

test('the view follows the text; scrolling up stops it, and the button resumes it', () => {
  const { box, button, follow } = following();
  box.scrollHeight += 30;
  follow.update();
  assert.equal(box.scrollTop, box.end);
  box.scrollTop -= 12;
  box.scrolled();
  const place = box.scrollTop;
  box.scrollHeight += 30;
  follow.update();
  assert.deepEqual([box.scrollTop, button.hidden], [place, false]);
  button.dispatchEvent(new Event('click'));
  assert.deepEqual([box.scrollTop, button.hidden], [box.end, true]);
});

test('after the reader scrolls up, text that arrives before the scroll event does not scroll back', () => {
  const { box, button, follow } = following();
  box.scrollTop -= 12;
  const place = box.scrollTop;
  box.scrollHeight += 30;
  follow.update();
  assert.deepEqual([box.scrollTop, button.hidden], [place, false]);
  box.scrolled();
  follow.update();
  assert.equal(box.scrollTop, place);
});

test('scrolling by the browser keeps following: shorter text, a resized box', () => {
  const { box, button, follow } = following();
  box.scrollHeight -= 40;
  follow.update();
  box.scrollHeight += 60;
  follow.update();
  assert.equal(box.scrollTop, box.end);
  box.clientHeight = 150;
  assert.equal(box.scrollTop, box.end); // Reading scrollTop forces a layout.
  box.clientHeight = 100;
  follow.keep();
  assert.equal(box.scrollTop, box.end);
  box.clientHeight = 150;
  box.scrollHeight += 20;
  follow.update();
  assert.deepEqual([box.scrollTop, button.hidden], [box.end, true]);
});

test('toStart() shows content from its beginning, without the button', () => {
  const { box, button, follow } = following();
  follow.toStart();
  assert.deepEqual([box.scrollTop, button.hidden], [0, true]);
  box.scrollTop = 12;
  box.scrolled();
  assert.equal(button.hidden, true);
  follow.toEnd();
  box.scrollTop -= 60;
  box.scrolled();
  assert.equal(button.hidden, false);
});
