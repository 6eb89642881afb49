"""Makes conversations for training: a user asks for a story about some topics, and a story of the corpus answers.

The topics are nouns and names of the story, found by the words around them.
"""
import re

ASK = [
    "Tell me a story about {}.", "Tell me a story about {}.", "Tell me a story about {}.",
    "Please tell me a story about {}.", "Tell me a short story about {}.",
    "Can you tell me a story about {}?", "Write a story about {}.", "Write a short story about {}.",
    "A story about {}, please.", "I would like a story about {}.", "Do you know a story about {}?",
    "tell me a story about {}", "story about {}", "Once upon a time there was {}. Go on.",
]
ASK_ANY = ["Tell me a story.", "Tell me a story, please.", "tell me a story", "Write a story.",
           "Please tell me a bedtime story.", "Can you tell me a story?", "A story, please."]
AGAIN = ["Another one.", "Another one, please.", "Tell me another story.", "One more, please.",
         "And another one?", "another one", "Can I have one more?"]
AGAIN_ABOUT = ["Another one, about {}.", "Now tell me a story about {}.", "And one about {}?",
               "Now one about {}, please.", "Thank you. Now a story about {}."]
MORE = ["Tell me more.", "What happened next?", "Go on.", "And then?", "What happened then?",
        "Please go on.", "more", "How does it end?"]
THANKS = ["Thank you.", "Thank you!", "Thanks!", "thanks", "That was nice.", "I like it.",
          "That was a good story.", "Great story!"]
WELCOME = ["You are welcome! Shall I tell you another story?", "I am glad you liked it.",
           "You are welcome!", "I am happy that you liked it! Would you like another one?",
           "Thank you! What shall the next story be about?"]
HELLO = ["Hello", "Hi", "Hello!", "Hi!", "Hi there", "Good morning!", "Hey", "hello"]
GREET = ["Hello! What shall the story be about?", "Hello! I can tell you a story.",
         "Hi! Would you like to hear a story?", "Hello! I like to tell stories. Ask me for one."]
WHO = ["Who are you?", "What are you?", "What can you do?", "What is your name?", "How are you?"]
I_AM = ["I am a tiny storyteller. I can only tell little stories.",
        "I am a very small language model, and all I know is stories. Ask me for one!",
        "I am a storyteller. Tell me what the story shall be about."]

_NOUN = re.compile(r"\b(?:a|an|the|his|her|their)(?: (?:little|big|small|old|new|red|blue|green|nice"
                   r"|pretty|young|shiny|special|beautiful))* ([a-z]{3,12})"
                   r"(?=[.,!?]| (?:and|was|is|said|saw|named|called|who|that|in|on|to|with|had|went)\b)")
_NAME = re.compile(r"(?:named|called|and|was|with|to|saw) ([A-Z][a-z]{2,9})\b")
_NOT = set("other others one two best same next first last little big most more very own way end day "
           "time them it thing things lot idea people moral story rest top same back side front".split())


def _article(noun):
    if noun.endswith("s") and not noun.endswith(("ss", "us", "bus")):
        return noun
    return ("an " if noun[0] in "aeiou" else "a ") + noun


def topics(story):
    """Returns up to five topics of the story, the most frequent and then the earliest first."""
    seen = {}
    for match in _NOUN.finditer(story):
        if match[1] not in _NOT:
            seen.setdefault(_article(match[1]), []).append(match.start())
    for match in _NAME.finditer(story):
        if match[1] not in ("The", "They", "She", "Then", "But", "Mom", "Dad", "Let", "Yes", "You", "What"):
            seen.setdefault(match[1], []).append(match.start())
    ranked = sorted(seen, key=lambda t: (-len(seen[t]), seen[t][0]))
    return ranked[:5]


def _about(rng, story):
    found = topics(story)
    if not found:
        return None
    n = min(len(found), rng.choice((1, 1, 2, 2, 2, 3)))
    picked = rng.sample(found, n)
    if n == 1:
        return picked[0]
    return ", ".join(picked[:-1]) + " and " + picked[-1]


def _request(rng, story, again):
    about = _about(rng, story)
    if about is None or rng.random() < (0.4 if again else 0.12):
        return rng.choice(AGAIN if again else ASK_ANY)
    return rng.choice(AGAIN_ABOUT if again and rng.random() < 0.5 else ASK).format(about)


def _halves(rng, story):
    """Splits the story at the end of a sentence near its middle. Returns None if there is none."""
    ends = [m.end() for m in re.finditer(r'[.!?]"?(?=\s)', story)]
    ends = [e for e in ends if 0.35 * len(story) < e < 0.7 * len(story)]
    if not ends:
        return None
    at = rng.choice(ends)
    return story[:at].strip(), story[at:].strip()


def conversation(rng, next_story):
    """Returns a random conversation as a list of (role, text). next_story() returns a story of the training set."""
    turns = []
    if rng.random() < 0.06:
        turns += [("user", rng.choice(HELLO)), ("model", rng.choice(GREET))]
    if rng.random() < 0.03:
        turns += [("user", rng.choice(WHO)), ("model", rng.choice(I_AM))]
    story = next_story()
    halves = _halves(rng, story) if rng.random() < 0.2 else None
    turns += [("user", _request(rng, story, False)), ("model", halves[0] if halves else story)]
    if halves:
        turns += [("user", rng.choice(MORE)), ("model", halves[1])]
    while rng.random() < 0.35:
        if rng.random() < 0.4:
            turns += [("user", rng.choice(THANKS)), ("model", rng.choice(WELCOME))]
        story = next_story()
        turns += [("user", _request(rng, story, True)), ("model", story)]
    if rng.random() < 0.1:
        turns += [("user", rng.choice(THANKS)), ("model", rng.choice(WELCOME))]
    return turns
