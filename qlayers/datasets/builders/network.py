"""A quick look whether an address answers, before a downloader retries for minutes."""

import threading

_CONNECT_SECONDS, _ANSWER_SECONDS = 4.0, 4.0
# Looking up a name has no time limit of its own.
_SECONDS = 8.0


def why_unreachable(url: str) -> str | None:
    """What keeps an address from answering; `None` if it answers.

    Args:
        url: The address of a file.
    """
    answers: list[str | None] = []
    asking = threading.Thread(
        target=lambda: answers.append(_problem_of(url)), daemon=True
    )
    asking.start()
    asking.join(_SECONDS)
    return answers[0] if answers else f"no answer in {_SECONDS:.0f} s"


def _problem_of(url: str) -> str | None:
    import requests

    limits = (_CONNECT_SECONDS, _ANSWER_SECONDS)
    try:
        with requests.get(url, stream=True, timeout=limits) as response:
            return None if response.ok else f"HTTP status {response.status_code}"
    except requests.ConnectionError:
        return "no connection"
    except requests.RequestException as error:
        return type(error).__name__
